-- for: operator
-- Executes a bulk action on its next `count` (1 to 10,000) runs, in the order of their ids, and stores the answers, in one transaction:
-- each run has its action once, however many processes call this and wherever they crash. A run whose status has changed since is refused
-- by the action and counted. Returns the progress after the batch; `answered` is the size of the batch. It is 0 if the bulk action is
-- finished, and also if another transaction executes a batch of it: then call again. Raises 22023 if there is no such bulk action.
-- Example:
--   select wakeboard.run_bulk_action_batch(id) from wakeboard.bulk_actions where finished_at is null;

create or replace function wakeboard.run_bulk_action_batch(bulk_action_id bigint, count integer default 1000)
returns table (total integer, done integer, refused integer, answered integer, finished boolean, cancelled boolean)
language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set jit = off set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  bulk bulk_actions;
  batch bigint[] := '{}';
  refusals integer;
begin
  perform require_read_committed('run_bulk_action_batch');
  if run_bulk_action_batch.count is null or run_bulk_action_batch.count not between 1 and 10000 then
    raise exception using errcode = '22023',
      message = format('count is %s; write a whole number from 1 to 10000', coalesce(count::text, 'null'));
  end if;
  -- The lock makes batches of one bulk action follow each other, so that last_run_id is exact, and makes a cancel wait for the batch.
  select * into bulk from bulk_actions as known where known.id = run_bulk_action_batch.bulk_action_id for no key update skip locked;
  if found and bulk.finished_at is null then
    batch := array(
      select item.run_id from bulk_action_runs as item
       where item.bulk_action_id = bulk.id and item.run_id > bulk.last_run_id
       order by item.run_id limit run_bulk_action_batch.count);
    with answers as materialized (
      select id, answer from retry(batch, bulk.reason, bulk.actor, bulk.source, bulk.id) where bulk.action = 'retry'
      union all
      select id, answer from cancel(batch, coalesce(nullif(bulk.reason, ''), 'Cancelled'), bulk.actor, bulk.source, bulk.id)
       where bulk.action = 'cancel'
      union all
      select id, answer from discard(batch, coalesce(nullif(bulk.reason, ''), 'Discarded'), bulk.actor, bulk.source, bulk.id)
       where bulk.action = 'discard'
      union all
      select id, answer from replay(batch, null, bulk.reason, bulk.actor, bulk.source, bulk.id) where bulk.action = 'replay'
    ), stored as (
      update bulk_action_runs as item set answer = answers.answer
        from answers where item.bulk_action_id = bulk.id and item.run_id = answers.id
    )
    select count(*) filter (where answer like 'refused%') into refusals from answers;
    update bulk_actions as known
       set done = known.done + cardinality(batch), refused = known.refused + refusals, last_run_id = batch[cardinality(batch)],
           finished_at = case when known.done + cardinality(batch) = known.total then statement_timestamp() end
     where known.id = bulk.id
    returning * into bulk;
  elsif bulk.id is null then               -- another transaction has locked it
    select * into bulk from bulk_actions as known where known.id = run_bulk_action_batch.bulk_action_id;
    if not found then
      raise exception using errcode = '22023', message = format('there is no bulk action %s', coalesce(bulk_action_id::text, 'null'));
    end if;
  end if;
  return query
  select bulk.total, bulk.done, bulk.refused, cardinality(batch), bulk.finished_at is not null, bulk.cancelled_at is not null;
end
$$;
