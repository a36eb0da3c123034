-- Accounts of people whom a proxy names (TREELINE_AUTH_HEADER): connected by the value of the header, as those of providers
-- are by issuer and subject. A name that somebody chose elsewhere is no reason to take their account for somebody else's.

create table proxy_user (
    -- The value of the header.
    value         text primary key,
    owner_id      uuid not null references owner,
    created_at    timestamptz not null default clock_timestamp(),
    last_used_at  timestamptz not null default clock_timestamp()
);
create index proxy_user_owner on proxy_user (owner_id);

-- True if the email address came from a provider and no admin has set it since.
alter table owner add column email_by_provider boolean not null default false;

update owner o set email_by_provider = true
where o.kind = 'user' and o.email is not null
  and (exists (select from audit a
               where a.owner_id = o.id and a.action = 'user.create'
                 and a.detail ~ '^(user|support|admin), by the provider ')
       or exists (select from identity_link l
                  where l.owner_id = o.id and l.created_at < o.created_at + interval '5 seconds'))
  and not exists (select from audit a where a.owner_id = o.id and a.action = 'user.email');

-- Accounts that the proxy created: it is their own actor there, under the name that the proxy gave.
insert into proxy_user (value, owner_id)
select distinct on (a.actor_name) a.actor_name, a.owner_id
from audit a join owner o on o.id = a.owner_id and o.kind = 'user'
where a.action = 'user.create' and a.actor_id = a.owner_id
  and a.detail in ('user, named by the proxy', 'support, named by the proxy', 'admin, named by the proxy')
order by a.actor_name, a.at desc;

-- Accounts that the proxy has signed in to, unless a provider signs in to them, too: whoever chose the name there may have
-- been there first.
insert into proxy_user (value, owner_id)
select distinct on (s.proxy_user) s.proxy_user, s.owner_id
from session s
where s.method = 'proxy' and not exists (select from identity_link l where l.owner_id = s.owner_id)
  and not exists (select from audit a
                  where a.owner_id = s.owner_id and a.action = 'user.create' and a.detail like '%, by the provider %')
order by s.proxy_user, s.created_at desc
on conflict (value) do nothing;

-- What is known of workbooks that cannot be read is found out anew: a fault of the whole file stands under the empty name
-- now, and one of the first sheet under its own.
delete from unreadable_sheet;
