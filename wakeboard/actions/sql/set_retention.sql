-- for: operator
-- Sets how long the installation keeps finished runs, idempotency keys (after their run ended), dead runs and the keys of effects once for
-- ever (after the effect), at least; null for the last two: forever; and how
-- long the logs of runs, null: as before. A day counts as 24 hours. Idempotency keys cannot be kept longer than
-- history, because history stores when their run ended. Before the first call the defaults of the table `installation` apply. Writes an
-- audit row if a value changes (see Audit).
-- Example:
--   select wakeboard.set_retention('30 days', '7 days');

create or replace function wakeboard.set_retention(
  history interval, keys interval, dead interval default null, effects interval default null,
  logs interval default null)
returns void language plpgsql security definer
set lock_timeout = '2s'
as $$
declare
  former installation;
begin
  if history is null or keys is null then
    perform refuse_argument(case when history is null then 'history' else 'keys' end, null, 'an interval, such as 30 days');
  end if;
  select * into former from installation;
  update installation
     set min_history_retention = longer_retention(null, history), min_key_retention = longer_retention(null, keys),
         min_dead_retention = longer_retention(null, dead), min_effect_retention = longer_retention(null, effects),
         log_retention = coalesce(longer_retention(null, logs), log_retention)
   where (min_history_retention, min_key_retention, min_dead_retention, min_effect_retention, log_retention)
         is distinct from (longer_retention(null, history), longer_retention(null, keys), longer_retention(null, dead),
                           longer_retention(null, effects), coalesce(longer_retention(null, logs), log_retention));
  if found then
    insert into audit_log (actor, source, action, detail)
    select session_user, 'sql', 'set_retention', jsonb_object_agg(which, jsonb_build_object(
             'history_days', trim_scale(extract(epoch from history_kept) / 86400),
             'keys_days', trim_scale(extract(epoch from keys_kept) / 86400),
             'dead_days', trim_scale(extract(epoch from dead_kept) / 86400),
             'effects_days', trim_scale(extract(epoch from effects_kept) / 86400),
             'logs_days', trim_scale(extract(epoch from logs_kept) / 86400)))
      from (values ('before', former.min_history_retention, former.min_key_retention, former.min_dead_retention,
                    former.min_effect_retention, former.log_retention)
            union all
            select 'after', min_history_retention, min_key_retention, min_dead_retention, min_effect_retention,
                   log_retention from installation
           ) as kept (which, history_kept, keys_kept, dead_kept, effects_kept, logs_kept);
  end if;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
