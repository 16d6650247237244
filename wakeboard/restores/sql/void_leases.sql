-- internal (called by compare_server and note_server)
-- Makes all leases void that have been granted so far (`lease_base`), and has `reap` begin soon, again if it scans now. The caller has
-- locked the row of the installation. One step is more than the epochs of a run grow by in 16,000 leases, on average; after 511 steps they
-- pass 2^53.

create or replace function wakeboard.void_leases()
returns void language sql volatile security definer
as $$
  update installation set lease_base = ((lease_base >> 44) + 1) << 44, reap_completed_at = 'epoch', reap_skipped_at = reap_started_at
$$;
