-- internal (called by enqueue and enqueue_unique_runs)
-- Returns the run that has this unique key, with its uuid and, unless it has ended, its status, if the caller may use it. No row: the run
-- `new_id`, which the caller creates, has it now, for `unique_for` seconds. With `replaces`, a returned run that waits gets `payload` and
-- `run_at`, and its window begins again. It keeps its crashes, and the effects that it has done; steps whose results come from another
-- payload are forgotten. Waits for a transaction that is giving the key to a run and, with `replaces`, for one that has locked the key or
-- the run. With `replaces` the key may already have `new_id`: `enqueue_many` locks all keys before it calls this.

create or replace function wakeboard.unique_run(
  job_type text, key bytea, unique_for integer, new_id bigint, new_uuid uuid, replaces boolean, payload jsonb, run_at timestamptz)
returns table (run_id bigint, run_uuid uuid, run_status text) language plpgsql security definer
as $$
#variable_conflict use_column
declare
  known job_unique_keys;
  waiting job_runs;
  usable boolean;
  ends_at timestamptz := statement_timestamp() + make_interval(secs => unique_for);
begin
  loop
    insert into job_unique_keys (job_type, key, run_id, run_uuid, unique_until)
    values (unique_run.job_type, unique_run.key, new_id, new_uuid, ends_at)
    on conflict on constraint a_unique_key_has_one_run_per_job_type do nothing;
    if found then
      return;
    end if;
    if replaces then                       -- lock the key, then the run, as every caller does
      select * into known from job_unique_keys where job_type = unique_run.job_type and key = unique_run.key for no key update;
    else
      select * into known from job_unique_keys where job_type = unique_run.job_type and key = unique_run.key;
    end if;
    continue when not found;               -- the key was deleted between the two statements
    if known.run_id = new_id then
      return;
    end if;
    if known.unique_until <= statement_timestamp() then
      update job_unique_keys set run_id = new_id, run_uuid = new_uuid, created_by = default, unique_until = ends_at
       where job_type = known.job_type and key = known.key and run_id = known.run_id and unique_until = known.unique_until;
      if found then
        return;
      end if;
      continue;                            -- another caller was first
    end if;
    usable := may_use_run_of(known.created_by);
    if replaces and not usable then
      raise exception using errcode = '42501', message = format(
        'the run %s with these unique values belongs to the role %s, which alone may replace it; grant it to your role, or leave out'
        ' if_exists', known.run_id, known.created_by);
    end if;
    if replaces then
      select * into waiting from job_runs
       -- it waits for no run
       where id = known.run_id and status in ('queued', 'failed') and run_at < '2999-12-31 00:00+00' for no key update;
      if found then
        update job_unique_keys set unique_until = ends_at where job_type = known.job_type and key = known.key;
        update job_runs
           set payload = unique_run.payload, run_at = unique_run.run_at, scheduled_for = unique_run.run_at, status = 'queued', attempts = 0,
               progress = null, progress_message = null
         where id = known.run_id;
        delete from job_steps where run_id = known.run_id and waiting.payload <> unique_run.payload;
        perform pg_notify('wakeboard', '');
      end if;
    end if;
    perform wait_for_standby();
    return query select known.run_id, case when usable then known.run_uuid end,
                        (select status::text from job_runs where usable and id = known.run_id);
    return;
  end loop;
end
$$;
