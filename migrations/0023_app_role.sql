-- What the role of a server may do where it is not the owner of the tables (docs/postgres.md).

-- Called by `treeline-server migrate --app-role` after the migrations, as the owner. All of it is one transaction: at no
-- moment may the role change the audit log.
create or replace function treeline_grant_app(app name) returns void
language plpgsql as $$
declare
    here text := current_schema();
begin
    execute format('grant usage on schema %I to %I', here, app);
    execute format('grant select, insert, update, delete on all tables in schema %I to %I', here, app);
    execute format('grant usage, select on all sequences in schema %I to %I', here, app);
    execute format('revoke update, delete, truncate, references, trigger on audit from %I', app);
    if to_regclass('_sqlx_migrations') is not null then
        execute format('revoke all on _sqlx_migrations from %I', app);
        execute format('grant select on _sqlx_migrations to %I', app);
    end if;
end
$$;
revoke all on function treeline_grant_app(name) from public;
