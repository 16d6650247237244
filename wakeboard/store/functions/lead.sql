-- for: operator
-- Makes `holder` the leader of a source for `lease_s` seconds if nobody else leads, or lets it lead on. Answers who leads now:
-- `leads` says whether it is the one who asked. The term grows whenever leadership was taken, and stays while it is held on to.
-- A standby that asks while another leads writes nothing.

create or replace function wakeboard.lead(source text, holder text, release text, lease_s integer)
returns table (term bigint, leads boolean, leader text, leader_release text, held_s double precision) language plpgsql security definer
set search_path = pg_catalog, wakeboard, pg_temp
as $$
#variable_conflict use_column
begin
  insert into leadership as held (source, term, holder, release, held_until, taken_at)
  select lead.source, 1, lead.holder, lead.release, statement_timestamp() + make_interval(secs => least(greatest(lease_s, 1), 300)), statement_timestamp()
   where not exists (
     select from leadership as led
      where led.source = lead.source and led.holder <> lead.holder and led.held_until > statement_timestamp())
  on conflict on constraint leadership_pkey do update
     set term = case when held.holder = excluded.holder and held.held_until > statement_timestamp() then held.term else held.term + 1 end,
         taken_at = case when held.holder = excluded.holder and held.held_until > statement_timestamp() then held.taken_at
                         else excluded.taken_at end,
         by_session = held.by_session and held.holder = excluded.holder and held.held_until > statement_timestamp(),
         holder = excluded.holder, release = excluded.release, held_until = excluded.held_until
   where held.holder = excluded.holder or held.held_until <= statement_timestamp();
  return query
  select now_held.term, now_held.holder = lead.holder, now_held.holder, now_held.release,
         extract(epoch from now_held.held_until - statement_timestamp())::double precision
    from leadership as now_held
   where now_held.source = lead.source;
end
$$;
