"""Start a Spark session: find a Java, make its workers quick, choose the settings.

It must not know what the session is used for, but for the data source that it registers.
"""
