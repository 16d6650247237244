-- for: operator
-- Executes the action of an annotation once for each token: run-now, retry-dead (all dead runs of the schedule), discard-dead, or backfill
-- of `ticks` (see `create_backfill`). The action and its token are stored in one transaction. `record_only`: store the token without
-- executing the action, because the annotation was there when the schedule was first synced. `refusal`: why the token means no action, for
-- users. Returns the result, when it was executed, and whether by this call (new). The audit rows have the source 'kubectl', and the
-- annotation as their reason. `traceparent`: the trace context (W3C) of run-now, as in `enqueue`. Raises 55P03 if another transaction has
-- locked the schedule or a run: nothing was done, try again.

create or replace function wakeboard.run_annotation_action(
  definition wakeboard.definition_number, action wakeboard.annotation_action, token wakeboard.annotation_token,
  record_only wakeboard.switch default false, refusal text default null, traceparent text default null,
  ticks wakeboard.backfill_tick_array default '{}', range_begin timestamptz default null, range_end timestamptz default null,
  at_once wakeboard.backfill_limit default 1, again wakeboard.switch default false)
returns table (result text, acted_at timestamptz, new boolean) language plpgsql security definer
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  def job_definitions;
  outcome text;
  dead bigint[];
  made_id bigint;
  locked text := 'refused: another transaction has locked a dead run; try again';
  why text := format('wakeboard.dev/%s=%s', action, token);
begin
  perform require_read_committed('run_annotation_action');
  select * into def from job_definitions where id = definition and removed_at is null for update;
  if not found then
    return query select 'refused: there is no such schedule', statement_timestamp(), false;
    return;
  end if;
  select known.result, known.requested_at, false into result, acted_at, new
    from action_tokens as known
   where known.source = def.source and known.namespace = def.namespace and known.name = def.name
     and known.action = run_annotation_action.action and known.token = run_annotation_action.token;
  if found then
    insert into action_tokens (source, namespace, name, action, token, executed, result)
    select def.source, def.namespace, def.name, run_annotation_action.action, run_annotation_action.token, false,
           run_annotation_action.result
     where exists (select from action_tokens as newer        -- the annotation has its former value again: keep this token, too
                    where newer.source = def.source and newer.namespace = def.namespace and newer.name = def.name
                      and newer.action = run_annotation_action.action and newer.requested_at > run_annotation_action.acted_at)
    on conflict on constraint a_token_is_executed_once do update set requested_at = excluded.requested_at, executed = false;
    return next;
    return;
  end if;
  if record_only then
    outcome := 'not done: the annotation existed before the schedule was first synced';
  elsif refusal is not null then
    outcome := 'refused: ' || left(refusal, 500);
  elsif run_annotation_action.action = 'backfill' then
    select case when made.id is null
      then 'refused: no tick is left to run: each has run or will run; add the word again to run them once more'
                else format('declared backfill %s: %s', made.id, made.total) || case made.total when 1 then ' run' else ' runs' end end
      into outcome
      from create_backfill(def.id, ticks, range_begin, range_end, at_once, again, why, source => 'kubectl') as made;
  elsif run_annotation_action.action = 'run-now' then
    select case when answer = 'queued' then 'queued run ' || made.id else answer end, made.id into outcome, made_id
      from run_now(def.id, reason => why, source => 'kubectl') as made;
    perform record_trace_context(array[made_id], run_annotation_action.traceparent, null) where made_id is not null;
  else
    dead := array(select id from job_runs where definition_id = def.id and dead_at is not null order by id);
    if run_annotation_action.action = 'retry-dead' then
      select case when bool_or(answer like '%; try again') then locked
                  else format('queued %s dead %s again', count(*), case count(*) when 1 then 'run' else 'runs' end) end into outcome
        from retry(dead, why, source => 'kubectl') where answer = 'queued' or answer like '%; try again';
    elsif run_annotation_action.action = 'discard-dead' then
      select case when bool_or(answer like '%; try again') then locked
                  else format('discarded %s dead %s', count(*), case count(*) when 1 then 'run' else 'runs' end) end into outcome
        from discard(dead, why, source => 'kubectl') where answer = 'discarded' or answer like '%; try again';
    end if;
  end if;
  if outcome like '%; try again' then     -- the error undoes what was done, so the token stays unused and no run is retried twice
    raise exception using errcode = '55P03', message = outcome;
  end if;
  insert into action_tokens (source, namespace, name, action, token, executed, result)
  values (def.source, def.namespace, def.name, run_annotation_action.action, run_annotation_action.token, not record_only,
          coalesce(outcome, 'refused: unknown action'));
  insert into definition_changes (definition_id) values (def.id);
  return query select outcome, statement_timestamp(), true;
exception when lock_not_available then
  if sqlerrm = locked then
    raise;
  end if;
  perform refuse_locked();
end
$$;
