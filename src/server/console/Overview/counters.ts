/**
 * Most counters of a kind that one query reads, newest day first. An organization reaches it only with thousands of tools, tasks or
 * endpoints in use every day; its oldest days are then incomplete.
 */
export const MAX_COUNTERS = 200_000
