import type { StoreSettings } from "../server/config/Settings.ts"

/** Names the configured database without its URL, which may contain a password. */
export const describeDatabase = (store: StoreSettings): string =>
  store.kind === "external" ? "PostgreSQL at DATABASE_URL" : `embedded PostgreSQL in ${store.dataDir}`
