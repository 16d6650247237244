-- for: operator
-- Stores an action (retry, cancel, discard or replay) on up to 1,000,000 runs. `run_bulk_action_batch` executes it. The runs are those of
-- `ids`, each once. To choose them by a query, write it as array(select …): then no id leaves the database. `filter` says to users which
-- runs these are. Returns the id of the bulk action and the number of its runs; without runs it is finished at once. Writes an audit row
-- for itself; the batches write one for each run (see Audit).
-- Example:
--   select * from wakeboard.create_bulk_action('retry', array(select id from wakeboard.job_runs where dead_at is not null), 'status:dead');

create or replace function wakeboard.create_bulk_action(
  action wakeboard.bulk_action_name, ids bigint[], filter text default '', reason text default '', actor wakeboard.audit_actor default null,
  source wakeboard.acting_program default 'sql')
returns table (id bigint, total integer) language plpgsql security definer
set jit = off
as $$
#variable_conflict use_column
declare
  listed integer := coalesce(cardinality(ids), 0);
  bulk bulk_actions;
begin
  if listed > 1000000 then
    raise exception using errcode = '22023', message = format(
      'a bulk action has at most 1,000,000 runs and these are %s; narrow the filter', to_char(listed, 'FM999,999,999'));
  end if;
  perform lease_base();                -- another server is recorded before it gives a number (void_leases)
  listed := (select count(distinct wanted) from unnest(ids) as wanted);
  insert into bulk_actions as made (action, filter, reason, actor, source, total, finished_at)
  values (create_bulk_action.action, coalesce(left(create_bulk_action.filter, 2000), ''),
          coalesce(left(create_bulk_action.reason, 200), ''),
          coalesce(actor, session_user), create_bulk_action.source, listed,
          case listed when 0 then statement_timestamp() end)
  returning * into bulk;
  insert into bulk_action_runs (bulk_action_id, run_id)
  select distinct bulk.id, wanted from unnest(ids) as wanted where wanted is not null order by wanted;
  insert into audit_log (actor, source, action, reason, detail, bulk_action_id)
  values (bulk.actor, bulk.source, 'create_bulk_action', bulk.reason,
          jsonb_build_object('action', bulk.action, 'filter', bulk.filter, 'total', bulk.total), bulk.id);
  return query select bulk.id, bulk.total;
end
$$;
