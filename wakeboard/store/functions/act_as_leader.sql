-- for: operator
-- The first statement of each transaction of a leader: an error (WB004) unless this term leads now. Whoever would take over waits
-- until that transaction has ended, so nothing of an old term is written after a new one has begun.

create or replace function wakeboard.act_as_leader(source text, term bigint)
returns void language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
as $$
begin
  perform from leadership as held
    where held.source = act_as_leader.source and held.term = act_as_leader.term and held.held_until > statement_timestamp()
      for share;
  if not found then
    raise exception 'term % of % does not lead any more', act_as_leader.term, act_as_leader.source using errcode = 'WB004';
  end if;
end
$$;
