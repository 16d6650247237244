-- internal (called by enqueue, enqueue_many, run_annotation_action)
-- Stores the trace context (W3C) of the enqueue of these runs. A malformed traceparent is dropped with its tracestate, a malformed
-- tracestate alone. Of a version after 00, the fields that 00 has are kept.

create or replace function wakeboard.record_trace_context(ids bigint[], traceparent text, tracestate text)
returns void language plpgsql security definer
as $$
declare
  member constant text := '[ \t]*[a-z0-9][a-z0-9_*/@-]*=[\x20-\x2b\x2d-\x3c\x3e-\x7e]*';
begin
  if char_length(traceparent) > 512 or (left(traceparent, 2) = '00' and char_length(traceparent) > 55)
     or traceparent !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}($|-)' or traceparent ~ '^ff|^.{3}0{32}|^.{36}0{16}' then
    return;
  end if;
  insert into job_trace_contexts (run_id, traceparent, tracestate)
  select id, '00' || substr(record_trace_context.traceparent, 3, 53),
         case when char_length(record_trace_context.tracestate) > 512 then null       -- before the pattern, whose cost grows with the text
              when cardinality(string_to_array(record_trace_context.tracestate, ',')) <= 32
                   and record_trace_context.tracestate ~ ('^' || member || '(,' || member || ')*$')
              then record_trace_context.tracestate end
    from unnest(ids) as id
   where record_trace_context.traceparent is not null
      on conflict do nothing;
end
$$;
