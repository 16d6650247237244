-- for: operator
-- Lets at most `max_running` (0 to 1,000,000) runs with limit key `key` run at once, from now on. Running runs are not stopped. Null: the
-- default of 1, or any number if the key has a rate limit. The keys of schedules (schedule:ID) follow from their concurrencyPolicy and
-- cannot be set. Writes an audit row if the limit changes (see Audit).
-- Example:
--   select wakeboard.set_limit('printer', 2);

create or replace function wakeboard.set_limit(
  key text, max_running integer, reason text default '',
  actor wakeboard.audit_actor default null, source wakeboard.acting_program default 'sql')
returns void language plpgsql security definer
set lock_timeout = '2s'
as $$
declare
  before integer;
begin
  if key is null then
    perform refuse_argument('key', null, 'the name of a limit key');
  elsif key::limit_key_name like '%:%' then
    perform refuse_value('limit_key', key);
  elsif max_running not between 0 and 1000000 then
    raise exception using errcode = '22023', message = format('a limit is %s; write a whole number from 0 to 1000000', max_running);
  end if;
  select case when bound.is_explicit then bound.max_running end into before
    from job_limits as bound where bound.key = set_limit.key for no key update;
  insert into job_limits as bound (key, max_running, is_explicit)
  values (set_limit.key, coalesce(set_limit.max_running, 1), set_limit.max_running is not null)
  on conflict on constraint job_limits_pkey do update
     set is_explicit = excluded.is_explicit,
         max_running = case when bound.rate_count is not null and not excluded.is_explicit then 1000000 else excluded.max_running end;
  if set_limit.max_running is distinct from before then
    insert into audit_log (actor, source, action, scope, reason, detail)
    values (coalesce(actor, session_user), source, 'set_limit', set_limit.key, coalesce(left(set_limit.reason, 200), ''),
            jsonb_build_object('before', before, 'after', set_limit.max_running));
  end if;
  perform pg_notify('wakeboard', '');
exception when lock_not_available then
  perform refuse_locked();
end
$$;
