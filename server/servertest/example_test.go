package servertest_test

import (
	"context"
	"fmt"
	"log"

	"github.com/boughdb/bough/gen/client"
)

// A program that makes a branch for a test run and removes it afterwards needs the client package alone.
func Example() {
	ctx := context.Background()
	c, err := client.NewClientWithResponses("http://127.0.0.1:8080", client.WithServiceKey("bough_sk_…"))
	if err != nil {
		log.Fatal(err)
	}
	wait, expiry := "wait=30", "2h"
	created, err := c.CreateBranchWithResponse(ctx, &client.CreateBranchParams{Prefer: &wait},
		client.CreateBranchRequest{Name: "test run 42", ExpiresIn: &expiry})
	if err != nil {
		log.Fatal(err)
	}
	if created.JSON201 == nil {
		log.Fatalf("no branch: %s", created.Body)
	}
	fmt.Println(created.JSON201.Slug, created.JSON201.Status)
	if _, err := c.DeleteBranchWithResponse(ctx, created.JSON201.Slug, nil); err != nil {
		log.Fatal(err)
	}
}
