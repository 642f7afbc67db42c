//go:build cloud

package fleet

// With the build tag cloud, artifacts may lie in S3 (s3://) and Google Cloud
// Storage (gs://).
import (
	_ "gocloud.dev/blob/gcsblob"
	_ "gocloud.dev/blob/s3blob"
)
