/** How often the overview is read again, in milliseconds. Its figures are of days: a newer one changes little. */
export const OVERVIEW_REFRESH_MS = 30_000
