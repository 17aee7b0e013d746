import type { StoreSettings } from "../server/config/Settings.ts"

/** Names the configured database without its URL, which may contain a password. */
export const describeDatabase = (store: StoreSettings): string => {
  if (store.kind === "external") return "PostgreSQL at DATABASE_URL"
  const programs = store.postgresBin === undefined ? "" : `, with the programs in ${store.postgresBin}`
  return `embedded PostgreSQL in ${store.dataDir}${programs}`
}
