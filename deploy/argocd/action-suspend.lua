-- No more runs by schedule, until it is resumed or Git says otherwise.
obj.spec.suspend = true
return obj
