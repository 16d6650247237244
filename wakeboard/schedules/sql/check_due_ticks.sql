-- internal (called by enqueue_due_ticks)
-- Raises 22023 for arguments of enqueue_due_ticks that contradict each other, or that no scheduler computes. That function takes the ticks
-- as they are, so an error of a client would become wrong runs. It does not read the schedules.

create or replace function wakeboard.check_due_ticks(
  ids bigint[], generations bigint[], cursors timestamptz[], next_cursors timestamptz[], up_to timestamptz[], errors text[],
  tick_definitions bigint[], tick_times timestamptz[],
  skip_definitions bigint[], skip_from timestamptz[], skip_until timestamptz[], skip_counts bigint[], skip_reasons text[],
  compiled text[])
returns void language plpgsql security definer
as $$
declare
  problem text;
begin
  problem := case
    when num_nulls(ids, generations, cursors, next_cursors, up_to, errors, tick_definitions, tick_times,
                   skip_definitions, skip_from, skip_until, skip_counts, skip_reasons, compiled) > 0
    then 'an array of enqueue_due_ticks is null; write {} for no elements'
    when greatest(array_ndims(ids), array_ndims(generations), array_ndims(cursors), array_ndims(next_cursors), array_ndims(up_to),
                  array_ndims(errors), array_ndims(tick_definitions), array_ndims(tick_times), array_ndims(skip_definitions),
                  array_ndims(skip_from), array_ndims(skip_until), array_ndims(skip_counts), array_ndims(skip_reasons)) > 1
         or array_lower(tick_definitions, 1) <> 1
    then 'an array of enqueue_due_ticks has more than one dimension; write for example {1,2}'
    when cardinality(ids) <> any (array[cardinality(generations), cardinality(cursors), cardinality(next_cursors),
                                        cardinality(up_to), cardinality(errors)])
         or cardinality(tick_definitions) <> cardinality(tick_times)
         or cardinality(skip_definitions) <> any (array[cardinality(skip_from), cardinality(skip_until), cardinality(skip_counts),
                                                        cardinality(skip_reasons)])
         or cardinality(compiled) not in (0, cardinality(ids))
    then 'arrays of enqueue_due_ticks that belong together differ in length'
    when num_nulls(array_position(skip_from, null), array_position(skip_until, null), array_position(skip_counts, null)) < 3
    then 'a range of skipped ticks has no beginning, no end or no count'
    when (select max(at) from unnest(up_to || tick_times || skip_until) as at) > statement_timestamp() + interval '1 minute'
    then 'a tick is in the future; only due ticks are enqueued'
    when (select max(at) from unnest(next_cursors) as at) > statement_timestamp() + interval '100 years'
    then 'a next tick is more than 100 years away'
    when (select min(at) from unnest(next_cursors || up_to || tick_times || skip_from || skip_until) as at) < 'epoch'
    then 'a tick is before 1970'               -- clients cannot read every timestamp that Postgres stores
    when (select min(count) from unnest(skip_counts) as count) < 1 then 'a range of skipped ticks has no ticks'
    when (select max(count) from unnest(skip_counts) as count) > 1e12 then 'a range of skipped ticks has more than 10^12 ticks'
  end;
  if problem is not null then
    raise exception using errcode = '22023', message = problem;
  end if;
end
$$;
