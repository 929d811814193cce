/* data_folder.c - which files of a directory are samples, of which class, in
 * which order; and what is said of the others. */
#include "worker/data/image/image_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/tap.h"
#include "worker/data/dataset.h"

static char dir[] = "/tmp/mgpu-folder-XXXXXX";

static void in_dir(const char *name, char out[300])
{
    (void)snprintf(out, 300, "%s/%s", dir, name);
}

/* An empty file, and the directories above it. */
static void put(const char *name)
{
    char path[300];
    in_dir(name, path);
    for (char *p = path + strlen(dir) + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        (void)mkdir(path, 0700);
        *p = '/';
    }
    FILE *f = fopen(path, "wb");
    if (!f || fclose(f) != 0)
        exit(1);
}

static void put_directory(const char *name)
{
    char path[300];
    in_dir(name, path);
    if (mkdir(path, 0700) < 0)
        exit(1);
}

static void drop(const char *name)
{
    char path[300];
    in_dir(name, path);
    if (remove(path) < 0)
        exit(1);
}

static void clean(void)
{
    char command[400];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    if (system(command) != 0)
        exit(1);
}

static int scan(bool is_train, double split, int64_t seed, bool skip,
                struct folder *f, struct error *err)
{
    const struct folder_conf conf = {.dir = dir,
                                     .is_train = is_train,
                                     .split = split,
                                     .seed = seed,
                                     .skip_bad = skip};
    *err = (struct error)ERROR_INIT;
    return folder_open(&conf, f, err);
}

/* "0:train/a/x.jpg 1:..." */
static const char *list(const struct folder *f)
{
    static char text[4000];
    size_t len = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < f->n; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%d:%s",
                                i ? " " : "", folder_files(f)[i].label,
                                folder_name(f, i));
    return text;
}

static void lists(bool is_train, double split, const char *want,
                  const char *what)
{
    struct folder f = {.n = 0};
    struct error err;
    if (scan(is_train, split, 1, false, &f, &err) < 0)
        tap_diag("%s", err.msg);
    is_str(list(&f), want, what);
    folder_clear(&f);
}

static void refuses(bool is_train, double split, enum err_code code,
                    const char *text, const char *what)
{
    struct folder f;
    struct error err;
    int rc = scan(is_train, split, 1, false, &f, &err);
    if (!ok(rc == -1 && err.code == code && strstr(err.msg, text), "%s: %s",
            what, text))
        tap_diag("rc %d, %d: %s", rc, err.code, err.msg);
    if (rc == 0)
        folder_clear(&f);
}

static void test_layout(void)
{
    refuses(true, 0, ERR_INVAL, "no val directory: set dataset.split",
            "nothing at all");
    refuses(true, 0.5, ERR_NOTFOUND, "no class directories", "with a split");
    put("train/dog/b.jpg");
    put("train/dog/a.PNG");
    put("train/Cat/10.jpeg");
    put("train/Cat/9.jpg");
    put("train/Cat/sub/1.png");
    put("train/Cat/sub-a/1.png");
    put("train/\xc3\xa9lan/z.jpg");
    refuses(true, 0, ERR_INVAL, "no val directory", "train alone");
    put("val/dog/c.jpg");
    put("val/\xc3\xa9lan/y.jpg");
    /* sorted(os.walk()) has Cat before Cat/sub, and that before Cat/sub-a. */
    lists(true, 0,
          "0:train/Cat/10.jpeg 0:train/Cat/9.jpg 0:train/Cat/sub/1.png "
          "0:train/Cat/sub-a/1.png 1:train/dog/a.PNG 1:train/dog/b.jpg "
          "2:train/\xc3\xa9lan/z.jpg",
          "classes and files in the order of their bytes");
    lists(false, 0, "1:val/dog/c.jpg 2:val/\xc3\xa9lan/y.jpg",
          "val has the numbers of train");
    refuses(true, 0.1, ERR_INVAL, "remove dataset.split", "val and a split");
    put("val/eel/c.jpg");
    refuses(false, 0, ERR_INVAL, "/val/eel: there is no such class in train",
            "a class of val alone");
    drop("val/eel/c.jpg");
    drop("val/eel");
    put_directory("train/empty");
    refuses(true, 0, ERR_INVAL, "/train/empty: no image of this class",
            "an empty class");
    drop("train/empty");
}

static void test_strays(void)
{
    struct folder f;
    struct error err;
    char path[300];
    put("train/README");
    put("train/dog/notes.txt");
    put("train/dog/.hidden.jpg");
    put("train/dog/x.jpg.bak");
    is_int(scan(true, 0, 1, false, &f, &err), 0, "other files");
    is_int(f.n, 7, "are not samples");
    is_int(f.strays, 4, "but counted");
    ok(strstr(f.first_strays, "train/README") &&
           !strstr(f.first_strays, "...") && strchr(f.first_strays, ','),
       "and named: %s", f.first_strays);
    folder_clear(&f);
    put("train/dog/old.bmp");
    refuses(true, 0, ERR_INVAL, "/train/dog/old.bmp: only JPEG and PNG",
            "an image of another kind");
    is_int(scan(true, 0, 1, true, &f, &err), 0, "which can be passed over");
    is_int(f.strays, 5, "and is counted then");
    folder_clear(&f);
    drop("train/dog/old.bmp");
    in_dir("train/dog/link.jpg", path);
    if (symlink("b.jpg", path) < 0)
        exit(1);
    refuses(true, 0, ERR_INVAL, "link.jpg: a symbolic link is not followed",
            "a link");
    drop("train/dog/link.jpg");
    in_dir("train/dog/pipe.jpg", path);
    if (mkfifo(path, 0600) < 0)
        exit(1);
    refuses(true, 0, ERR_INVAL, "pipe.jpg: not a file", "a pipe");
    drop("train/dog/pipe.jpg");
    in_dir("train/fox", path);
    if (symlink("dog", path) < 0)
        exit(1);
    refuses(true, 0, ERR_INVAL, "/train/fox: neither directory nor file",
            "a class that is a link");
    drop("train/fox");
}

/* All of n files are in one of the parts, whatever the seed. */
static void test_split(void)
{
    struct folder a, b, c;
    struct error err;
    char name[60];
    clean();
    put_directory("");
    for (int i = 0; i < 40; i++) {
        (void)snprintf(name, sizeof(name), "k%d/%02d.jpg", i % 4, i);
        put(name);
    }
    refuses(true, 0, ERR_INVAL, "no val directory: set dataset.split, such as",
            "classes alone");
    if (scan(true, 0.25, 7, false, &a, &err) < 0 ||
        scan(false, 0.25, 7, false, &b, &err) < 0 ||
        scan(false, 0.25, 8, false, &c, &err) < 0)
        exit(1);
    is_int(a.n, 30, "three quarters to train");
    is_int(b.n, 10, "one to evaluate");
    is_int(b.num_classes, 4, "both have all classes");
    int32_t both = 0;
    for (int32_t i = 0; i < b.n; i++)
        for (int32_t k = 0; k < a.n; k++)
            both += strcmp(folder_name(&a, k), folder_name(&b, i)) == 0;
    is_int(both, 0, "none in both");
    ok(folder_digest(&b) != folder_digest(&c), "another seed, other images");
    ok(strcmp(folder_name(&a, 0), folder_name(&a, 29)) < 0, "in their order");
    folder_clear(&c);
    if (scan(false, 0.25, 7, false, &c, &err) < 0)
        exit(1);
    ok(folder_digest(&b) == folder_digest(&c), "the same seed, the same");
    folder_clear(&a);
    folder_clear(&b);
    folder_clear(&c);
    folder_clear(&c);
    folder_clear(NULL);
    if (scan(true, 0.001, 7, false, &a, &err) < 0)
        exit(1);
    is_int(a.n, 39, "evaluation has one at least");
    folder_thin(&a, 4);
    bool spread = a.n == 4;
    for (int32_t i = 0; i < 4; i++)
        spread = spread && folder_files(&a)[i].label == i;
    ok(spread, "four of them are one of each class");
    folder_clear(&a);
}

static void test_dataset(void)
{
    struct dataset d;
    struct error err = ERROR_INIT;
    struct dataset_conf conf = {
        .source = SOURCE_IMAGE_FOLDER, .path = dir, .split = 0.5};
    is_int(dataset_open(&conf, DATASET_TRAIN, &d, &err), 0, "as a dataset");
    ok(d.n == 20 && d.num_classes == 4 && !d.images && d.labels[0] == 0 &&
           d.labels[19] == 3 && d.norm.mean[0] == 0.485 &&
           d.norm.std[2] == 0.225,
       "of files, with ImageNet's mean");
    dataset_clear(&d);
    conf.samples = 21;
    is_int(dataset_open(&conf, DATASET_TRAIN, &d, &err), -1, "more than all");
    ok(strstr(err.msg, "20 images, 21 are asked for") != NULL, "%s", err.msg);
    conf.samples = 0;
    conf.num_classes = 3;
    is_int(dataset_open(&conf, DATASET_TRAIN, &d, &err), -1, "a class less");
    ok(strstr(err.msg, "4 classes, but model.num_classes is 3") != NULL, "%s",
       err.msg);
    conf.path = "/nonexistent/x";
    is_int(dataset_open(&conf, DATASET_TRAIN, &d, &err), -1, "nowhere");
    is_int(err.code, ERR_NOTFOUND, "is not found");
    conf.path = NULL;
    is_int(dataset_open(&conf, DATASET_TRAIN, &d, &err), -1, "no path");
}

/* A tree too deep, and a name too long for a path, are errors. */
static void test_depth(void)
{
    char name[300] = "k0";
    for (int i = 0; i < 18; i++)
        (void)snprintf(name + strlen(name), 16, "/%d", i);
    (void)snprintf(name + strlen(name), 10, "/x.jpg");
    put(name);
    refuses(true, 0.5, ERR_INVAL, "directories too deep", "18 levels");
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_layout();
    test_strays();
    test_split();
    test_dataset();
    test_depth();
    clean();
    return tap_done();
}
