"""The fields of requests and answers, a class for each; named as in `RequestCode`."""
