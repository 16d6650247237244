-- The trace context (W3C) of the enqueue: in a table of its own, which only workers with OpenTelemetry read.

create table job_trace_contexts (
  run_id      bigint primary key,
  traceparent text not null,
  tracestate  text,
  created_at  timestamptz not null default statement_timestamp(),
  constraint traceparent_is_55_characters check (char_length(traceparent) = 55),
  constraint tracestate_is_at_most_512_characters check (char_length(tracestate) <= 512)
);
create index job_trace_contexts_created on job_trace_contexts (created_at);
comment on table job_trace_contexts is 'The trace contexts (W3C) of the enqueues of runs.';

-- Both have two arguments more now; `migrate` writes them again.
drop function if exists enqueue(
  text, jsonb, text, integer, timestamptz, text, text, integer, integer, text, integer, integer, integer, text[], text);
drop function if exists enqueue_many(
  text[], jsonb[], text[], integer[], timestamptz[], text[], text[], integer, integer, integer, text[], text);

-- The annotation run-now may come with a trace context.
drop function if exists run_annotation_action(definition_number, annotation_action, annotation_token, switch);
