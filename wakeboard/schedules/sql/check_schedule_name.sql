-- internal (called by schedule_written)
-- Raises 22023 if a cluster or a folder has the name that a schedule of an application gets, or if the namespace is full (`is_new`: it gets
-- one more). Waits for a transaction that removes or replaces the schedule of this name. Returns whether there is or was one.

create or replace function wakeboard.check_schedule_name(in_namespace text, short text, is_new boolean)
returns boolean language plpgsql security definer
set enable_seqscan = off
as $$
declare
  most integer;
  is_known boolean;                    -- another schedule has or had this name
  is_there boolean;                    -- an application has it: `on conflict` updates that one, or the statement fails
  owner text;
begin
  select max_schedules_per_namespace,
         exists (select from job_definitions where namespace collate "C" = in_namespace and name collate "C" = short)
    into most, is_known
    from installation where only_row;
  if is_known then                         -- apart, because an aggregate takes long to begin
    begin                                  -- waits for a transaction that removes or replaces it, and keeps no lock: no later deadlock
      perform from job_definitions where source = 'app' and namespace = in_namespace and name = short for no key update;
      raise sqlstate 'WB000';
    exception when sqlstate 'WB000' then null;
    end;
    select max(source) filter (where source <> 'app'), bool_or(source = 'app') into owner, is_there
      from job_definitions
     where namespace collate "C" = in_namespace and name collate "C" = short and removed_at is null;
    if owner is not null then
      raise exception using errcode = '22023', message = format(
        'the schedule %s/%s belongs to %s; write another name, or edit it there', in_namespace, short, owner);
    end if;
  end if;
  if most is not null and is_new and is_there is not true then
    perform check_schedule_count(in_namespace, most);
  end if;
  return is_known;
end
$$;
