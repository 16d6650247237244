-- internal (called by fetch_runs)
-- What a worker of these queues carries at its first call of fetch_runs. Random numbers decide where it begins, so that workers which start
-- together do not all read the same queue first. `seen`: what it already knows of the server.

create or replace function wakeboard.new_fetch_state(queues text[], seen wakeboard.server_seen)
returns wakeboard.fetch_state language plpgsql security definer
as $$
declare
  places constant integer[] := array[5 * cardinality(queues)];
  of_queues constant integer[] := array[cardinality(queues)];
  s fetch_state;
begin
  s.queues := queues;
  s.after_run_at := array_fill('-infinity'::timestamptz, places);
  s.after_id := array_fill(0::bigint, places);
  s.finished := array_fill(false, places);
  s.from_start := true;
  s.unlimited := false;
  s.scan_s := 0;
  s.next_scan_at := '-infinity';
  s.turn := floor(random() * cardinality(queues))::integer;
  s.limited_first := random() < 0.5;
  s.after_key := '';
  s.limited_at := '-infinity';
  s.limited_wait := false;
  s.owed := random();
  s.oldest_at := '-infinity';
  s.oldest_turn := 0;
  s.oldest_run_at := array_fill('-infinity'::timestamptz, places);
  s.oldest_id := array_fill(0::bigint, places);
  s.oldest_s := array_fill(0e0, of_queues);
  s.oldest_next := array_fill('infinity'::timestamptz, of_queues);
  s.oldest_done := array_fill(false, of_queues);
  s.ask_at := '-infinity';
  s.yields_since := null;
  s.yield_s := 30;
  s.alone_since := null;
  s.seen := seen;
  return s;
end
$$;
