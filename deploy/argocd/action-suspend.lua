-- Stops runs by schedule until it is resumed or the manifest in Git is applied again.
obj.spec.suspend = true
return obj
