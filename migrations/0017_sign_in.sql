-- Sign-in that cannot be locked from outside, passwords that somebody else chose, sessions that end.

-- ---- Failed sign-ins -----------------------------------------------------------------------------

-- One row a counter, for all servers: an account from an address, an address, an account, all together, a device, the
-- one-time links from an address. The key is a hash of that, so that nothing here names anybody. Unlogged: a crash
-- forgets them, and a flood of failures writes no log.
create unlogged table sign_in_failure (
    key                     bytea primary key,
    -- Not whole: failures are forgiven steadily.
    failures                double precision not null,
    forgiven_after_seconds  double precision not null,
    last_at                 timestamptz not null default clock_timestamp()
);
create index sign_in_failure_last_at on sign_in_failure (last_at);

-- ---- Passwords -----------------------------------------------------------------------------------

-- Somebody else chose the password: whoever signs in with it is led to choosing one of their own.
alter table owner add column must_change_password boolean not null default false;

-- ---- Sessions ------------------------------------------------------------------------------------

-- No session outlives ninety days, however busy it is: its end moves with its use, up to there.
update session set expires_at = created_at + interval '90 days'
where expires_at > created_at + interval '90 days' and ended_at is null;
