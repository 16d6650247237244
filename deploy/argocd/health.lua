-- Argo CD's health of a JobSchedule. Degraded means that the manifest in Git must change. A failed run is not a failed deployment.
local health = {status = "Progressing", message = "Waiting for the operator to look at it."}
local status = obj.status
if status == nil or status.observedGeneration == nil or status.observedGeneration ~= obj.metadata.generation then
  return health
end
local found = {}
for _, condition in ipairs(status.conditions or {}) do
  found[condition.type] = condition
end
local function is(name)
  return found[name] ~= nil and found[name].status == "True"
end
if is("Stalled") then
  return {status = "Degraded", message = found.Stalled.message}
end
if not is("Ready") then
  if found.Ready ~= nil then
    health.message = found.Ready.message
  end
  return health
end
if is("Suspended") then
  return {status = "Suspended", message = found.Suspended.message}
end
local message = found.Ready.message
if found.Healthy ~= nil and found.Healthy.status == "False" then
  message = found.Healthy.message
end
return {status = "Healthy", message = message}
