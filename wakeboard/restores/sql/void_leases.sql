-- internal (called by compare_server and note_server)
-- Makes all leases void that have been granted so far (`lease_base`), and has `reap` begin soon. The caller has locked the row of the
-- installation. One step is more than the epochs of a run grow by in 200,000 leases; 32,000 steps fit.

create or replace function wakeboard.void_leases()
returns void language sql volatile security definer
as $$
  update installation set lease_base = ((lease_base >> 48) + 1) << 48, reap_completed_at = 'epoch'
$$;
