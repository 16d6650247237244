-- Most ticks are recorded when their run is created, and updated once, at its end: there is room for that in the page, so no index changes.
alter table schedule_ticks set (fillfactor = 50);

-- `enqueue_ready_ticks` replaces it.
drop function if exists note_ready_ticks(bigint[], timestamptz[]);
