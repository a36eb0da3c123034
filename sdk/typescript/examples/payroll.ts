// Payroll: a tree with a fixed shape, whose items are added while it runs.
//
// Each calculated wage becomes a payment, and each payment two bookings. Payments of one bank run one at a time, in order.
// Only the bookings are the tree's results. The engine moves work from one level to the next.
import type { Client, Job, NewItem } from '@treeline/client';
import { Failure, type Task } from '@treeline/client/worker';

import { Downstream, order } from './downstream.js';
import { collect, complete, expect, find, notRetryable, page, prepare, refused, run, same, say, until, working } from './scenario.js';

const [CALCULATE, PAY, BOOK] = ['payroll.calculate', 'payroll.pay', 'payroll.book'] as const;
const EMPLOYEES = 12;
const BANKS = ['north-bank', 'south-bank', 'west-bank'] as const;
/** Employee whose time clock answers only at the second attempt. */
const SLOW = 5;
/** Employee without a contract, whose wage cannot be calculated. */
const NO_CONTRACT = 9;

interface Timesheet { readonly employee: number; readonly bank: string; readonly hours: number | null }
interface Payment { readonly employee: number; readonly bank: string; readonly net: number }
interface Entry { readonly ledger: string; readonly amount: number }

const bookings = { type: BOOK, key: 'bookings', final_stage: true, feed: { each: '/result/entries', payload: { $from: '/element' } } };
const payments = {
  type: PAY,
  key: 'payments',
  feed: {
    payload: { employee: { $from: '/payload/employee' }, bank: { $from: '/payload/bank' }, net: { $from: '/result/net' } },
    serialize_key: { $from: '/payload/bank' },
  },
  children: [bookings],
};
const tree = { type: CALCULATE, key: 'wages', name: 'Payroll of March', expected_count: EMPLOYEES, children: [payments] };

function timesheets(first: number, last: number): NewItem[] {
  return Array.from({ length: last - first + 1 }, (_, place) => {
    const employee = first + place;
    const payload = { employee, bank: BANKS[employee % BANKS.length], hours: employee === NO_CONTRACT ? null : 160 };
    return { payload, dedupe_key: `employee-${employee}` };
  });
}

function calculate(task: Task<Timesheet>): { net: number } {
  const { employee, hours } = task.payload;
  if (employee === SLOW && task.attempt === 1) {
    throw new Failure('the time clock did not answer', { kind: 'timeout', retryAfterSeconds: 0.1 });
  }
  if (hours === null) throw notRetryable('there is no contract', 'no_contract');
  return { net: hours * 20 };
}

async function pay(task: Task<Payment>, bank: string): Promise<unknown> {
  const { employee, bank: name, net } = task.payload;
  const receipt = await order(bank, 'payments', name, task.itemId);
  const entries: Entry[] = [{ ledger: 'wages', amount: net }, { ledger: name, amount: -net }];
  return { receipt, employee, entries };
}

async function payroll(client: Client): Promise<string> {
  await prepare(client, ...[CALCULATE, PAY, BOOK].map((name) => ({ name, heartbeat_seconds: 5 })));
  const bank = await Downstream.open();
  const work = (task: Task): unknown => {
    const type = task.assignment.item.type;
    if (type === CALCULATE) return calculate(task as Task<Timesheet>);
    return type === PAY ? pay(task as Task<Payment>, bank.url) : task.payload;
  };
  const made = await client.createJob(tree as Parameters<Client['createJob']>[0]);
  const root = made.id;
  say(`made a tree of three levels, still empty: ${page(client, root)}`);
  const half = EMPLOYEES / 2;
  const options = { types: [CALCULATE, PAY, BOOK], concurrency: 8, workerId: 'payroll-office' };
  const [done] = await working(client, options, work, async () => {
    await client.addItems(root, timesheets(1, half));
    const begun = await until(client, root, (job) => find(job, 'payments').counts.succeeded > 0);
    expect(!begun.sealed && !find(begun, 'payments').sealed, 'nobody has sealed anything yet');
    say('wages are being paid while half of the timesheets are still to come');
    await refused(client.seal(find(made, 'payments').id), 'job_is_fed', 'sealing by hand what the engine feeds');
    const twice = timesheets(half, EMPLOYEES);
    await refused(client.addItems(root, twice, { seal: true }), 'duplicate', 'handing in a timesheet twice');
    const added = await client.addItems(root, timesheets(half + 1, EMPLOYEES), { seal: true });
    same([added.accepted, added.sealed], [EMPLOYEES - half, true], 'the second half is in');
    return complete(client, root);
  });
  bank.close();
  say(done.message);
  await check(client, done, bank);
  return `${EMPLOYEES - 1} of ${EMPLOYEES} paid, ${2 * (EMPLOYEES - 1)} bookings, at most 1 payment a bank at a time`;
}

async function check(client: Client, done: Job, bank: Downstream): Promise<void> {
  const paid = EMPLOYEES - 1;
  const [paying, booking] = [find(done, 'payments'), find(done, 'bookings')];
  same(done.tree.outcome, 'partial', 'one wage could not be calculated');
  same([done.counts.succeeded, done.counts.dead], [paid, 1], 'wages');
  same([paying.counts.succeeded, paying.sealed], [paid, true], 'payments');
  same([booking.counts.succeeded, booking.sealed], [2 * paid, true], 'bookings');
  const items = await collect(client.items({ job: paying.id }));
  same(new Set(items.map((item) => item.fed_by ?? '')).size, items.length, 'each payment comes of a wage of its own');
  for (const name of BANKS) {
    const accepted = items.filter((item) => item.serialize_key === name).map((item) => item.id);
    same(bank.effects.filter((effect) => effect.account === name).map((effect) => effect.key), accepted, `${name} paid in order`);
    same(bank.mostAtOnce(name), 1, `${name} had one payment at a time`);
  }
  const results = await collect(client.results(done.id));
  expect(results.every((line) => line.job_id === booking.id), 'the results are those of the final stage alone');
  const balance = results.reduce((sum, line) => sum + (line.result as Entry).amount, 0);
  same([results.length, balance], [2 * paid, 0], 'the books are balanced');
}

await run('payroll', payroll);
