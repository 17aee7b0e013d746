import type { OrgId } from "../../../domain/Ids.ts"

/** A memory budget in characters, shared by all organizations. */
export interface FairBudget {
  /** Whether the organization's addition fits. */
  readonly fits: (org_id: OrgId, characters: number) => boolean
  readonly reserve: (org_id: OrgId, characters: number) => void
  readonly release: (org_id: OrgId, characters: number) => void
}

/** An organization may use at most half of the budget, so that its backlog cannot starve all others. */
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
