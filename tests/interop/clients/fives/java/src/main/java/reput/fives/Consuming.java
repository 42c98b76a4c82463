package reput.fives;

/** A consumer of either kind. */
interface Consuming {
    void stop() throws Exception;
}
