-- Queues every dead run again. The token is the time: each press of the button is a token of its own.
local annotations = obj.metadata.annotations or {}
annotations["wakeboard.dev/retry-dead"] = "argocd-" .. os.date("!%Y-%m-%dT%H-%M-%SZ")
obj.metadata.annotations = annotations
return obj
