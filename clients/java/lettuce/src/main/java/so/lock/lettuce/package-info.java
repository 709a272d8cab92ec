/** The locks on Lettuce. */
package so.lock.lettuce;
