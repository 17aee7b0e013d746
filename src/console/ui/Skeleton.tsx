/** A loading placeholder. */
export const Skeleton = ({ lines = 5 }: { readonly lines?: number }) => (
  <div className="skeleton" role="status" aria-label="Loading">
    {Array.from({ length: lines }, (_, index) => (
      <span key={index} />
    ))}
  </div>
)
