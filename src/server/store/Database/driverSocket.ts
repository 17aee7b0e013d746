import { Predicate } from "effect"
import { Duplex } from "node:stream"

/**
 * The only use of private members of the driver: the socket of a connection, or of the connection that it reserves. The driver has no public
 * property for it, so an upgrade can remove it without an error of types. Every statement with a deadline reads it, the first one while the
 * service starts, which then fails: without the socket, a lost connection would never be closed.
 */
export const driverSocket = (connection: object): Duplex => {
  const base = Predicate.hasProperty(connection, "base") ? connection.base : connection
  if (Predicate.hasProperty(base, "session") && Predicate.hasProperty(base.session, "socket")) {
    const { socket } = base.session
    if (socket instanceof Duplex) return socket
  }
  throw new Error(
    "The installed version of @effect/sql-pg keeps the socket of a connection elsewhere than in `session.socket`, so lost connections could not be closed. Install the version that this package requires."
  )
}
