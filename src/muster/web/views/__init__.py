"""What the API and the command line show: values of the cluster in, shapes of JSON out. Pure."""
