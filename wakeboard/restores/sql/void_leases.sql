-- internal (called by compare_server and note_server)
-- Makes all leases void that have been granted so far (`lease_base`), and has `reap` begin soon, again if it scans now. The caller has
-- locked the row of the installation. One step is more than the epochs of a run grow by in 16,000 leases, on average; after 511 steps they
-- pass 2^53. The numbers of backfills and bulk actions, by which users name them, go on a million later: a lost one comes to no other.

create or replace function wakeboard.void_leases()
returns void language sql volatile security definer
as $$
  update installation set lease_base = ((lease_base >> 44) + 1) << 44, reap_completed_at = 'epoch', reap_skipped_at = reap_started_at;
  select setval(name, last_value + 1000000)
    from (select 'backfills_id_seq'::regclass, last_value from backfills_id_seq
          union all select 'bulk_actions_id_seq', last_value from bulk_actions_id_seq) as sequence (name, last_value)
$$;
