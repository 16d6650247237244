"""The job type `job`: each attempt of a run is one Kubernetes Job, made from the template of a CronJob.

    payload.py           what a payload may say
    template.py          the Job of an attempt; its name
    observed.py          what the handler reads of a Job and of its pods
    outcomes.py          the result or the error of a Job that has ended
    tracker.py           the Jobs and pods of this process, over one watch for each collection
    patient_requests.py  the requests of an attempt, which wait for an API server that is away
    cluster.py           what all attempts of a process share
    attempt.py           creates or adopts the Job of an attempt, and follows it to its end
    orphans.py           deletes Jobs that no attempt can adopt
    handler.py           the handler

Only handler.py is imported from outside, and only if the settings enable it.
"""
