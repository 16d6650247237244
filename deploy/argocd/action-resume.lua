-- Runs by schedule again.
obj.spec.suspend = false
return obj
