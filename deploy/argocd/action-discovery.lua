-- Which actions make sense now.
local suspended = obj.spec.suspend == true
local dead = obj.status ~= nil and obj.status.dead ~= nil and obj.status.dead > 0
return {
  ["run-now"] = {disabled = false},
  ["retry-dead"] = {disabled = not dead},
  ["suspend"] = {disabled = suspended},
  ["resume"] = {disabled = not suspended}
}
