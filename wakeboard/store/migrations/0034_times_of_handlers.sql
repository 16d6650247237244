-- Workers say when the handlers began and ended. The functions have more arguments now; `migrate` writes them again.
drop function if exists complete(bigint, bigint[], bigint, jsonb);
drop function if exists fail(bigint, bigint[], bigint[], text[], text[], text[], text[], real[]);
drop function if exists release(bigint, bigint[], bigint[], real[], boolean[], text[]);
drop function if exists finish_runs(bigint[], run_status, text, jsonb);

comment on column job_run_history.started_at is 'when the handler of the last attempt began';
comment on column job_run_history.finished_at is 'when the handler of a run that succeeded ended; of another one, when it moved here';
