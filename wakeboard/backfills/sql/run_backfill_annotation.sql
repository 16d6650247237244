-- for: operator
-- Executes the annotation wakeboard.dev/backfill of a schedule once for each value (`token`), and stores the token in the same transaction:
-- declares a backfill of the ticks that the value means (see `create_backfill`). `refusal`: why the value declares none, for users; null: it
-- does. `record_only`, the result, and the audit rows are those of `run_annotation_action`.
-- Raises 55P03 if another transaction has locked the schedule: nothing was done, try again.

create or replace function wakeboard.run_backfill_annotation(
  definition wakeboard.definition_number, token wakeboard.annotation_token, ticks wakeboard.backfill_tick_array default '{}',
  range_begin timestamptz default null, range_end timestamptz default null, at_once wakeboard.backfill_limit default 1,
  again wakeboard.switch default false, refusal text default null, record_only wakeboard.switch default false)
returns table (result text, acted_at timestamptz, new boolean) language plpgsql security definer
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  def job_definitions;
  outcome text;
begin
  perform require_read_committed('run_backfill_annotation');
  select * into def from job_definitions where id = definition and removed_at is null for update;
  if not found then
    return query select 'refused: there is no such schedule', statement_timestamp(), false;
    return;
  end if;
  return query
  select known.result, known.requested_at, false
    from action_tokens as known
   where known.source = def.source and known.namespace = def.namespace and known.name = def.name
     and known.action = 'backfill' and known.token = run_backfill_annotation.token;
  if found then
    return;
  end if;
  if record_only then
    outcome := 'not done: the annotation existed before the schedule was first synced';
  elsif refusal is not null then
    outcome := 'refused: ' || left(refusal, 500);
  else
    select case when made.id is null then 'refused: no tick is left to run: each has run or will run; add the word again to run them once more'
                else format('declared backfill %s: %s', made.id, made.total) || case made.total when 1 then ' run' else ' runs' end end
      into outcome
      from create_backfill(def.id, ticks, range_begin, range_end, at_once, again, 'wakeboard.dev/backfill=' || token,
                           source => 'kubectl') as made;
  end if;
  insert into action_tokens (source, namespace, name, action, token, executed, result)
  values (def.source, def.namespace, def.name, 'backfill', run_backfill_annotation.token, not record_only, outcome);
  insert into definition_changes (definition_id) values (def.id);
  return query select outcome, statement_timestamp(), true;
exception when lock_not_available then
  perform refuse_locked();
end
$$;
