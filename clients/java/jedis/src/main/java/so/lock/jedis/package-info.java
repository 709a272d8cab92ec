/** The locks on Jedis. */
package so.lock.jedis;
