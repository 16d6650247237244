-- internal (called by reap)
-- Whether a scan for expired leases begins now, as `reap` says. It records the beginning, so that other callers wait for the next one.

create or replace function wakeboard.begin_reap(always wakeboard.switch)
returns boolean language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set jit = off
as $$
begin
  perform from installation for no key update skip locked;
  if not found then                      -- the row is locked by another caller that scans, or by a transaction left open
    return always or random() < 0.1 and exists (
      select from installation where reap_started_at < statement_timestamp() - interval '1 minute');
  end if;
  perform note_server();
  update installation set reap_started_at = statement_timestamp()
   where always
      or reap_started_at > statement_timestamp()                     -- the clock was ahead
      or reap_started_at < statement_timestamp() - interval '4 seconds'
         and (reap_completed_at < statement_timestamp() - interval '1 minute' or reap_completed_at < reap_started_at)
      or reap_started_at < statement_timestamp() - interval '1 second'
         and exists (select from workers where last_seen < statement_timestamp() - make_interval(secs => lease_s));
  return found;
end
$$;
