import type { SqlClient } from "effect/sql"

/**
 * SQL of the form of a key's email address by which confirmations are compared, for statements over `api_keys`: with its
 * domain in lower case. The part before it stays, because its case may matter (RFC 5321, section 2.4), and a confirmation
 * must not count for the mailbox of someone else. Only ASCII letters have a case here, on every server alike.
 */
export const mailbox = (sql: SqlClient.SqlClient) => sql.literal(MAILBOX)

/** The same, for constant texts. */
export const MAILBOX = `(
  left(api_keys.email, strpos(api_keys.email, '@')) ||
  lower(substr(api_keys.email, strpos(api_keys.email, '@') + 1) COLLATE "C")
)`

/** The same for another SQL expression than a key's address. */
export const mailboxSql = (email: string): string => MAILBOX.replaceAll("api_keys.email", email)

/** The mailbox of an address that is not stored yet. */
export const mailboxOf = (email: string): string => {
  const domain = email.indexOf("@") + 1
  return email.slice(0, domain) + email.slice(domain).replace(/[A-Z]/g, (letter) => letter.toLowerCase())
}
