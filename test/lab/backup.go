package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// Backup copies the cluster's data and returns the path of the copy. The API
// server and etcd are away for the moment it takes.
func (c *Cluster) Backup(ctx context.Context) (string, error) {
	path, err := c.backupPath()
	if err != nil {
		return "", err
	}
	if err := c.Stop(APIServer, Etcd); err != nil {
		return "", err
	}
	err = os.CopyFS(path, os.DirFS(c.path("etcd")))
	return path, errors.Join(err, c.Start(ctx))
}

// Restore puts the data of a backup back: objects made since are gone and
// resourceVersions run backwards, as after a restore of a real etcd. Everything
// that has watched is restarted with it.
func (c *Cluster) Restore(ctx context.Context, backup string) error {
	if err := c.Stop(); err != nil {
		return err
	}
	if err := os.RemoveAll(c.path("etcd")); err != nil {
		return err
	}
	if err := os.CopyFS(c.path("etcd"), os.DirFS(backup)); err != nil {
		return fmt.Errorf("restoring %s: %w", c.name, err)
	}
	// etcd refuses a data folder that others can read.
	if err := os.Chmod(c.path("etcd"), 0o700); err != nil {
		return err
	}
	return c.Start(ctx)
}

func (c *Cluster) backupPath() (string, error) {
	for i := 1; ; i++ {
		path := c.path("backups", strconv.Itoa(i))
		_, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			return path, nil
		}
		if err != nil {
			return "", err
		}
	}
}
