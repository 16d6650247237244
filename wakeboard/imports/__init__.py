"""The import of CronJobs and crontabs."""
