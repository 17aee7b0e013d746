import type { OrgId } from "../../../domain/Ids.ts"

/** Room in memory, in characters, that organizations share. */
export interface FairBudget {
  /** Whether there is room for what an organization adds. */
  readonly fits: (org_id: OrgId, characters: number) => boolean
  readonly reserve: (org_id: OrgId, characters: number) => void
  readonly release: (org_id: OrgId, characters: number) => void
}

/** One organization has half of it at most: its backlog must not take the room of all others. */
export const makeFairBudget = (size: number): FairBudget => {
  const taken = new Map<OrgId, number>()
  let all = 0
  return {
    fits: (org_id, characters) =>
      all + characters <= size && (taken.get(org_id) ?? 0) + characters <= size / 2,
    reserve: (org_id, characters) => {
      taken.set(org_id, (taken.get(org_id) ?? 0) + characters)
      all += characters
    },
    release: (org_id, characters) => {
      const own = (taken.get(org_id) ?? 0) - characters
      if (own > 0) taken.set(org_id, own)
      else taken.delete(org_id)
      all -= characters
    }
  }
}
