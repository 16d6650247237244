-- internal (called by maintenance_due and note_server)
-- Whether the commits of all sessions wait for a standby, as the settings of the server, the database and the roles say. A session whose
-- role, client or SET chose its own synchronous_commit does not see that of the server: its answer is `known`, unless a role chose less.

create or replace function wakeboard.commits_wait(known boolean)
returns boolean language plpgsql stable security definer
as $$
declare
  here constant boolean := current_setting('synchronous_commit') not in ('off', 'local');
begin
  if current_setting('synchronous_standby_names') = ''
     or exists (select from pg_db_role_setting as chosen, unnest(chosen.setconfig) as setting
                 where chosen.setdatabase in (0, (select oid from pg_database where datname = current_database()))
                   and setting ~* '^synchronous_commit=(off|local|false|no|0)$') then
    return false;
  end if;
  if here = known then
    return known;                      -- pg_settings costs more than the rest
  end if;
  return (select case when source in ('user', 'database user', 'client', 'session', 'interactive') then known else here end
            from pg_settings where name = 'synchronous_commit');
end
$$;
