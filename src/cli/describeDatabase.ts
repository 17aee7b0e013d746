import type { StoreSettings } from "../server/config/Settings.ts"

/** Which store it is, for people; without the URL, in which there may be a password. */
export const describeDatabase = (store: StoreSettings): string =>
  store.kind === "external" ? "PostgreSQL at DATABASE_URL" : `embedded PostgreSQL in ${store.dataDir}`
