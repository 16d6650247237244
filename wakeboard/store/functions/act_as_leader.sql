-- for: operator
-- The first statement of each transaction of a leader: an error (WB004) unless this term leads now. Whoever would take over waits
-- until that transaction has ended, so nothing of an old term is written after a new one has begun. A leader that freezes in the
-- middle of one does not hold up its successor: when the term has lapsed, the server ends a session that says nothing.

create or replace function wakeboard.act_as_leader(source text, term bigint)
returns void language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
as $$
declare
  left_ms integer;
begin
  select ceil(extract(epoch from held.held_until - statement_timestamp()) * 1000) into left_ms from leadership as held
    where held.source = act_as_leader.source and held.term = act_as_leader.term and held.held_until > statement_timestamp()
      for share;
  if not found then
    raise exception 'term % of % does not lead any more', act_as_leader.term, act_as_leader.source using errcode = 'WB004';
  end if;
  perform set_config('idle_in_transaction_session_timeout', left_ms::text, true);
end
$$;
